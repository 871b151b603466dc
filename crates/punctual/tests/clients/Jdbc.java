// PLT-13: JDBC calls Punctual's SQL functions inside its own transactions. The body of `place` is the guide's
// example to the letter (docs/guide/sql.md); a test compares the two.
import java.net.URI;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.time.OffsetDateTime;

public class Jdbc {
    public static void main(String[] arguments) throws SQLException {
        try (var connection = connect(URI.create(arguments[0]))) {
            run(connection, "create table orders (number int primary key, what text)");
            place(connection);
            // The order is there: its insert fails after both calls.
            var refused = refusal(() -> place(connection));
            check(refused.getSQLState().equals("23505"), refused.getMessage());
            rollBack(connection);
            cancel(connection);
            refuse(connection);
        }
    }

    static Connection connect(URI url) throws SQLException {
        var address = "jdbc:postgresql://" + url.getHost() + ":" + url.getPort() + url.getPath();
        return DriverManager.getConnection(address, url.getUserInfo(), "");
    }

    static void place(Connection connection) throws SQLException {
        connection.setAutoCommit(false);
        try (var enqueue = connection.prepareStatement(
                 "select punctual.enqueue('orders', ?, kind => 'order.placed')");
             var schedule = connection.prepareStatement(
                 "select punctual.schedule('reminders', ?, ?, correlation_id => 'order-7')");
             var insert = connection.prepareStatement("insert into orders values (?, ?)")) {
            enqueue.setString(1, "{\"order\": 7}");
            enqueue.execute();
            schedule.setString(1, "{\"order\": 7}");
            schedule.setObject(2, OffsetDateTime.now().plusDays(3));
            schedule.execute();
            insert.setInt(1, 7);
            insert.setString(2, "a lamp");
            insert.executeUpdate();
            connection.commit();
        } catch (SQLException refused) {
            connection.rollback();
            throw refused;
        }
    }

    static void rollBack(Connection connection) throws SQLException {
        one(connection, "select punctual.enqueue('orders', '{\"order\": 8}')");
        one(connection, "select punctual.schedule('reminders', '{}', now() + interval '1 day')");
        connection.rollback();
        check(one(connection, "select count(*) from punctual.message").equals(2L), "a rollback left messages");
    }

    static void cancel(Connection connection) throws SQLException {
        var timer = "(select id from punctual.message where topic = 'reminders')";
        check(one(connection, "select punctual.cancel_timer(" + timer + ")").equals(true), "the timer waits");
        connection.rollback();
    }

    static void refuse(Connection connection) throws SQLException {
        var refused = refusal(() -> run(connection, "select punctual.enqueue('a/b', '{no json')"));
        check(refused.getSQLState().equals("22023"), refused.getSQLState());
        check(refused.getMessage().matches("(?s).*topic: must not contain `/`.*payload: is not JSON.*"),
            refused.getMessage());
        connection.rollback();
    }

    interface Statements {
        void run() throws SQLException;
    }

    static SQLException refusal(Statements statements) {
        try {
            statements.run();
        } catch (SQLException refused) {
            return refused;
        }
        throw new AssertionError("this should be refused");
    }

    static void run(Connection connection, String sql) throws SQLException {
        try (var statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }

    static Object one(Connection connection, String sql) throws SQLException {
        try (var statement = connection.createStatement(); var rows = statement.executeQuery(sql)) {
            rows.next();
            return rows.getObject(1);
        }
    }

    static void check(boolean holds, String sentence) {
        if (!holds) {
            throw new AssertionError(sentence);
        }
    }
}
